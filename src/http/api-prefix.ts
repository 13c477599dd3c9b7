/** The version segment of the base address (docs/interface.md, section 9). */
export const API_PREFIX = 'v1';
