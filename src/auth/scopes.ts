/** What a key may be allowed to do. The database checks the same list (`api_key_scopes_check`). */
export const SCOPES = ['inventory:read', 'inventory:write', 'metrics:read'] as const;

export type Scope = (typeof SCOPES)[number];

/** What a key is told that lacks a scope. */
export const lacksScope = (scope: Scope) => `The API key lacks the scope ${scope}.`;

/** What a key may do when nothing else is asked for: both operations of the published interface. */
export const DEFAULT_SCOPES: readonly Scope[] = ['inventory:read', 'inventory:write'];
