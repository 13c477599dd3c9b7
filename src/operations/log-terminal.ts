import type { PrettyOptions } from 'pino-pretty';

/** Members of a request's line that are in its text, or in the JSON alone. */
const OF_A_REQUEST =
  'method,route,status,code,reason,durationMs,keyId,requestId,bytes,address,forwardedFor,traceId,aborted';

/** How the log looks in a terminal: `[12:10:46] INFO: GET /v1/inventory 200 1.234 ms key 4kd02hx9 req 1f3c5a7b`. */
export const terminalOptions: PrettyOptions = {
  sync: true,
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss',
  ignore: OF_A_REQUEST,
  messageFormat(line) {
    const { msg, route, method, status, code, reason, durationMs, keyId, requestId } = line as Record<string, string>;
    if (route === undefined) return String(msg);
    const key = keyId && `key ${keyId}`;
    return [method, route, status, reason ?? code, durationMs, 'ms', key, 'req', requestId?.slice(0, 8)]
      .filter((part) => part !== undefined)
      .join(' ');
  },
};
