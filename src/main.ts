import './node-version.js';
import type { Stop } from './serve.js';

// Process 1 of a container is not even ended by a signal that it does not listen for. So this comes before all that takes time
// to load: until there is something to drain, the process just ends.
let stop: Stop = () => process.exit(0);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal, 0));

const { serve } = await import('./serve.js');
stop = await serve();
