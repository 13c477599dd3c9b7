/** What a key may be allowed to do. The database checks the same list (`api_key_scopes_check`). */
export const SCOPES = ['inventory:read', 'inventory:write', 'metrics:read'] as const;

export type Scope = (typeof SCOPES)[number];

export const lacksScope = (scope: Scope) => `The API key lacks the scope ${scope}.`;

/** Both operations of the published interface. */
export const DEFAULT_SCOPES: readonly Scope[] = ['inventory:read', 'inventory:write'];
