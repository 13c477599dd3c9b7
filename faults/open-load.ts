import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type Answer, type Question } from '../test/support/http-client.ts';

const GIVE_UP_MS = 15_000;
const MOST_CONNECTIONS = 4_000;

/**
 * Sends requests at a fixed rate, whether or not the earlier ones were answered. The listener gets no answer where the
 * connection was lost or refused; what could not be sent for want of connections is counted.
 */
export async function openLoad<Shot extends Question>(
  ports: readonly number[],
  perSecond: number,
  durationMs: number,
  next: () => Shot,
  listener: (answer: Answer | undefined, durationMs: number, shot: Shot) => void,
): Promise<{ sent: number; notSent: number }> {
  const idle: Connection[] = [];
  const underWay = new Set<Promise<void>>();
  const tally = { sent: 0, notSent: 0 };

  async function shoot(): Promise<void> {
    const port = ports[tally.sent++ % ports.length] ?? 0;
    const shot = next();
    let connection = idle.pop();
    while (connection && !connection.reusable) connection = idle.pop();
    const sentAt = performance.now();
    try {
      connection ??= await Connection.open(port);
      const answer = await connection.request(shot, { withinMs: GIVE_UP_MS });
      listener(answer, performance.now() - sentAt, shot);
      if (connection.reusable) idle.push(connection);
      else connection.destroy();
    } catch {
      listener(undefined, performance.now() - sentAt, shot);
    }
  }

  const shots = atSteadyRate(perSecond, () => {
    if (underWay.size >= MOST_CONNECTIONS) {
      tally.notSent++;
      return;
    }
    const shooting = shoot().finally(() => underWay.delete(shooting));
    underWay.add(shooting);
  });
  await sleep(durationMs);
  shots.stop();
  await Promise.all(underWay);
  for (const connection of idle) connection.destroy();
  return tally;
}

/** Acts so many times a second, however long each act takes; those that are late are caught up. */
export function atSteadyRate(perSecond: number, act: (n: number) => void): { stop(): void } {
  const started = performance.now();
  let acts = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - started) / 1000) * perSecond; acts < due;) act(++acts);
  }, 5);
  return { stop: () => clearInterval(timer) };
}
