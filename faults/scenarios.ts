import { ABUSE } from './scenarios/abuse.ts';
import { CERTIFICATES } from './scenarios/certificates.ts';
import { DAMAGE } from './scenarios/damage.ts';
import { sigterm } from './scenarios/drain.ts';
import { INTERRUPTIONS } from './scenarios/interruptions.ts';
import { MEMORY } from './scenarios/memory.ts';
import { OUTAGES } from './scenarios/outage.ts';
import { OVERLOAD } from './scenarios/overload.ts';
import { PIPELINES } from './scenarios/pipelines.ts';
import { REPETITION } from './scenarios/repetition.ts';
import { SOAK } from './scenarios/soak.ts';
import { TRUTH } from './scenarios/truth.ts';
import type { Scenarios } from './stage.ts';

/** Every fault by its name. A control is a service or a database made wrong, and passes when that is found out. */
export const SCENARIOS: Scenarios = {
  ...TRUTH,
  ...INTERRUPTIONS,
  ...DAMAGE,
  ...CERTIFICATES,
  ...OUTAGES,
  sigterm,
  ...OVERLOAD,
  ...ABUSE,
  ...PIPELINES,
  ...REPETITION,
  ...SOAK,
  ...MEMORY,
};

/** Not in a medium run: they take more than a minute, or find what `npm test` finds, too. */
export const LEFT_OUT_OF_MEDIUM: readonly string[] = [
  'every-fault',
  'control-renewed-certificates',
  'small-container',
  'control-small-container',
];
