import type { PrettyOptions } from 'pino-pretty';

/** The members that a person looks for; they stand in the message, and the rest of a request's members is left out. */
const SHOWN = ['method', 'route', 'status', 'reason', 'code', 'durationMs', 'keyId', 'requestId'];

/** How the log looks in a terminal: one short line for each request. */
export const terminalOptions: PrettyOptions = {
  sync: true,
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss',
  customColors: 'message:reset',
  ignore: [...SHOWN, 'traceId', 'address', 'forwardedFor', 'bytes'].join(),
  messageFormat: `{msg}${SHOWN.map((member) => `{if ${member}} {${member}}{end}`).join('')}`,
};
