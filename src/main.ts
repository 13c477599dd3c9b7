import './node-version.ts';
import type { Stop } from './serve.ts';

// Linux ends process 1 of a container only by signals that it listens for, so it listens before it loads anything
// large.
let stop: Stop = () => process.exit(0);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal, 0));

const { serve } = await import('./serve.ts');
stop = await serve();
