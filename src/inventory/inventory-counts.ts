/** What the service counts for `/metrics`, under the names that the dashboard and the alerts read. */
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
