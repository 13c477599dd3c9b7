import { afterAll, beforeEach } from 'vitest';
import { watch } from './endless-loop.ts';
import { endWhatHooksStarted } from './test-end.ts';

beforeEach(({ task }) => watch(`${task.file.name} > ${task.name}`));
afterAll(endWhatHooksStarted, 60_000);
