import type { EventEmitter } from 'node:events';

/** What a service tells `/metrics`, under the names that the dashboard and the alerts read. */
export class InventoryCounts {
  /** How often the whole stock was read. */
  readings = 0;
  /** How often only its changes were read. A service that keeps no list has none of these, and no reuses. */
  patches = 0;
  reuses = 0;
  /** Of the last list, not compressed. */
  listBytes = 0;
  /** Of all processes, as last counted. */
  heldCommits = 0;
}

/** `equal` and `different`: the list that a service keeps, and the stock. `index`: it is damaged. `none`: the audit failed. */
export const AUDIT_RESULTS = ['equal', 'different', 'index', 'none'] as const;

export interface AuditEnd {
  readonly result: (typeof AUDIT_RESULTS)[number];
  /** For the operator. */
  readonly finding?: string;
}

export interface InventoryAudits extends EventEmitter<{ end: [AuditEnd] }> {
  /** From the end of an audit to the next one. Tests shorten it. */
  everyMs: number;
  /** The same after the start, and after an audit that compared nothing or found the index damaged. */
  againMs: number;
  /** Each list calls it; no list waits for an audit. */
  beginIfDue(): void;
}
