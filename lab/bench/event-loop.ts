// Preloaded into the service (--import): to each message it replies how long the event loop was held at most since the last.
import { monitorEventLoopDelay } from 'node:perf_hooks';

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
process.on('message', () => {
  process.send?.(delay.max / 1e6);
  delay.reset();
});
process.channel?.unref();
