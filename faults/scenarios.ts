import { invalidRequests, stalledReaders } from './scenarios/abuse.ts';
import { renewedCertificates, renewedCertificatesControl } from './scenarios/certificates.ts';
import { lockedRow } from './scenarios/contention.ts';
import { killBackend, killBackendControl, killPostgres, killService, lostUpdateControl } from './scenarios/crash.ts';
import { damagedTls, readByCodeControl } from './scenarios/damage.ts';
import { sigterm } from './scenarios/drain.ts';
import {
  cutBeforeAnswer,
  cutConnections,
  postgresDown,
  postgresFrozen,
  restartPostgres,
  silentConnections,
  terminateSessions,
} from './scenarios/outage.ts';
import {
  fullDisk,
  fullDiskControl,
  fullLogDisk,
  fullLogDiskControl,
  takenConnections,
  takenConnectionsControl,
} from './scenarios/exhaustion.ts';
import { smallContainer, smallContainerControl } from './scenarios/memory.ts';
import { crowd, overload } from './scenarios/overload.ts';
import { hostilePipelines, parallelPipelinesControl } from './scenarios/pipelines.ts';
import { forgottenKeysControl, repeatedUpdates, repeatedUpdatesOverTls } from './scenarios/repetition.ts';
import { soak } from './scenarios/soak.ts';
import { longList, noFault, staleListControl } from './scenarios/truth.ts';
import type { Figure, World } from './stage.ts';

export type Scenario = (world: World) => Promise<Figure[]>;

/** Every fault by its name. A control is a service or a database made wrong, and passes when that is found out. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'no-fault': noFault,
  'long-list': longList,
  'control-stale-list': staleListControl,
  'control-lost-update': lostUpdateControl,
  'control-read-by-code': readByCodeControl,
  'kill-service': killService,
  'kill-postgres': killPostgres,
  'kill-backend': killBackend,
  'control-kill-backend': killBackendControl,
  'restart-postgres': restartPostgres,
  'terminate-sessions': terminateSessions,
  'cut-connections': cutConnections,
  'cut-before-answer': cutBeforeAnswer,
  'damaged-tls': damagedTls,
  'renewed-certificates': renewedCertificates,
  'control-renewed-certificates': renewedCertificatesControl,
  'silent-connections': silentConnections,
  'postgres-down': postgresDown,
  'postgres-frozen': postgresFrozen,
  'locked-row': lockedRow,
  'full-disk': fullDisk,
  'control-full-disk': fullDiskControl,
  'full-log-disk': fullLogDisk,
  'control-full-log-disk': fullLogDiskControl,
  'taken-connections': takenConnections,
  'control-taken-connections': takenConnectionsControl,
  sigterm: sigterm,
  overload: overload,
  crowd: crowd,
  'invalid-requests': invalidRequests,
  'stalled-readers': stalledReaders,
  'hostile-pipelines': hostilePipelines,
  'control-parallel-pipelines': parallelPipelinesControl,
  'repeated-updates': repeatedUpdates,
  'repeated-updates-tls': repeatedUpdatesOverTls,
  'control-forgotten-keys': forgottenKeysControl,
  soak: soak,
  'small-container': smallContainer,
  'control-small-container': smallContainerControl,
};

/** Not in a medium run: they take more than a minute, or find what another control finds, too. */
export const LEFT_OUT_OF_MEDIUM: readonly string[] = [
  'control-full-log-disk',
  'control-taken-connections',
  'control-renewed-certificates',
  'small-container',
  'control-small-container',
];
