import { afterAll } from 'vitest';
import { endWhatHooksStarted } from './test-end.ts';

afterAll(endWhatHooksStarted, 60_000);
