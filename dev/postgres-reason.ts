/** These sum up what a line of the log before them says. */
const SUMMARY = /contains errors|could not (load|create any)|checkpoint request failed/;
const USUAL = /^LOG: +(starting|listening|database system|redirecting)/;

/** The reason in the output of `initdb` or of the server, in one line. The last line is only what follows from it. */
export function reasonIn(output: string): string {
  const lines = output.split('\n').map((line) => line.replace(/^\d\S+ \S+ \S+ \[\d+\] /, '').trim());
  const last = lines.findIndex((line) => /^(FATAL|PANIC|initdb: error):/.test(line));
  const before = lines.slice(0, Math.max(last, 0));
  const error = before.findIndex((line) => line.startsWith('ERROR:'));
  const unusual = before.findIndex((line) => line.startsWith('LOG:') && !USUAL.test(line));
  const first = !SUMMARY.test(lines[last] ?? '') ? -1 : error < 0 ? unusual : error;
  const at = first < 0 ? last : first;
  if (at < 0) return lines.filter((line) => line !== '' && !line.startsWith('LOG:')).join(' ');
  const end = lines.findIndex((line, index) => index > at && !/^(initdb: )?(detail|hint|context):/i.test(line));
  return lines
    .slice(at, end < 0 ? lines.length : end)
    .map((line) => line.replace(/^(initdb: )?\w+: +/, '').replace(/\.$/, ''))
    .join('. ');
}
