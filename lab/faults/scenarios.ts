import { FAULTS } from './faults.ts';
import { sigterm } from './scenarios/drain.ts';
import { INTERRUPTIONS } from './scenarios/interruptions.ts';
import { OVERLOAD } from './scenarios/overload.ts';
import { REPETITION } from './scenarios/repetition.ts';
import { TRUTH } from './scenarios/truth.ts';
import type { Scenarios } from './stage.ts';

/**
 * Every scenario by its name. The control puts a wrong cache before a service, and passes when the judge finds that.
 */
export const SCENARIOS: Scenarios = {
  ...TRUTH,
  ...INTERRUPTIONS,
  sigterm,
  ...OVERLOAD,
  ...REPETITION,
};

/** A medium run leaves these out, because its two scenarios `every-fault` play each fault. */
export const LEFT_OUT_OF_MEDIUM = Object.keys(FAULTS);
