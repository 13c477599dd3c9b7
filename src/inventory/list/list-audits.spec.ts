import { once } from 'node:events';
import { expect, it, onTestFinished, vi } from 'vitest';
import { startService } from '../../../test/support/service.ts';
import { Settings } from '../../settings.ts';
import { ListAudits } from './list-audits.ts';

const MINUTE_MS = 60_000;

it('an audit is due five minutes after the start, an hour after one that ended well, and five minutes after another one', async () => {
  const { app, sql } = await startService();
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  const start = Math.floor(performance.now());
  clock.mockReturnValue(start);
  const begun: number[] = [];
  const audits = new ListAudits(app.get(Settings));
  audits.beginComparison = () => {
    begun.push((performance.now() - start) / MINUTE_MS);
    return () => Promise.resolve({ result: 'equal' });
  };
  const listAt = async (minutes: number) => {
    clock.mockReturnValue(start + minutes * MINUTE_MS);
    const ended = once(audits, 'end');
    const before = begun.length;
    audits.beginIfDue();
    audits.beginIfDue(); // one at a time
    if (begun.length > before) await ended;
  };
  for (const minutes of [4.9, 5, 64.9, 65]) await listAt(minutes);
  await sql('ALTER TABLE unrecorded_change RENAME TO kept_aside');
  await listAt(125);
  await sql('ALTER TABLE kept_aside RENAME TO unrecorded_change');
  for (const minutes of [129.9, 130, 189.9, 190]) await listAt(minutes);
  expect(begun).toEqual([5, 65, 125, 130, 190]);
});
