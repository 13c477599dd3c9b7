import type { PrettyOptions } from 'pino-pretty';

const MAX_COLUMNS = 100;

type Members = Readonly<Record<string, unknown>>;

/** How the log looks in a terminal: a request is one line of at most 100 columns. */
export const terminalOptions: PrettyOptions = {
  sync: true,
  singleLine: true,
  include: 'err', // pino-pretty writes the error with its stack, all else is in the message
  customColors: 'message:reset',
  messageFormat(line, _messageKey, _levelLabel, { colors }) {
    const { time, level, status, msg } = line as { time: string; level: string; status?: number; msg: string };
    const clock = new Date(time).toTimeString().slice(0, 8);
    if (msg === 'request' && status !== undefined) {
      const text = requestText(line).slice(0, MAX_COLUMNS - clock.length - 1);
      const colour = status >= 500 ? colors.red : status >= 400 ? colors.yellow : colors.green;
      return `${colors.gray(clock)} ${text.replace(` ${status}`, (shown) => colour(shown))}`;
    }
    const rank = level === 'error' ? colors.red('ERROR ') : level === 'warn' ? colors.yellow('WARN ') : '';
    return `${colors.gray(clock)} ${rank}${msg}${othersOf(line)}`;
  },
};

/** For example `PATCH /v1/inventory/:petId 412 precondition_failed 1.2 ms key 4kd02hx9 req 1f3c5a7b…`. */
function requestText({ method, route, status, code, reason, durationMs, bytes, keyId, requestId }: Members): string {
  const id = String(requestId);
  return [
    ...[method, route, status, reason ?? code, `${Number(durationMs).toFixed(1)} ms`],
    Number(status) < 400 && bytes !== undefined && `${(Number(bytes) / 1e3).toFixed(1)} kB`,
    typeof keyId === 'string' && `key ${keyId}`,
    `req ${id.length > 8 ? `${id.slice(0, 8)}…` : id}`,
  ]
    .filter((part) => part !== undefined && part !== false)
    .join(' ');
}

function othersOf(line: Members): string {
  return Object.entries(line)
    .filter(([name]) => !['level', 'time', 'msg', 'err'].includes(name))
    .map(([name, value]) => ` ${name}=${String(value)}`)
    .join('');
}
