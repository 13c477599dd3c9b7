/** What every answer has, beside `X-Request-Id`. Helmet adds to it where a browser page is served. */
export const HEADERS_ON_EVERY_ANSWER: ReadonlyMap<string, string> = new Map([
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
  ['Referrer-Policy', 'no-referrer'],
]);
