/** The version segment of the base address, section 9 of the specification. */
export const API_PREFIX = 'v1';
