import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type Answer, type Question } from '../../test/support/http-client.ts';

const GIVE_UP_MS = 15_000;
const MOST_CONNECTIONS = 4_000;

/**
 * Sends requests at a fixed rate, whether or not the earlier ones were answered. The listener gets no answer where the
 * connection was lost or refused.
 *
 * @returns how many requests were due, and how many of them found no connection left
 */
export async function openLoad(
  ports: readonly number[],
  perSecond: number,
  durationMs: number,
  next: () => Question,
  listener: (answer: Answer | undefined, durationMs: number) => void,
): Promise<{ due: number; notSent: number }> {
  const idle: Connection[] = [];
  const underWay = new Set<Promise<void>>();
  const tally = { due: 0, notSent: 0 };

  async function send(port: number): Promise<void> {
    const sentAt = performance.now();
    let connection = idle.pop();
    while (connection?.reusable === false) connection = idle.pop();
    try {
      connection ??= await Connection.open(port);
      const answer = await connection.request(next(), { withinMs: GIVE_UP_MS });
      listener(answer, performance.now() - sentAt);
      if (connection.reusable) idle.push(connection);
      else connection.destroy();
    } catch {
      listener(undefined, performance.now() - sentAt);
    }
  }

  const load = atSteadyRate(perSecond, (n) => {
    tally.due = n;
    if (underWay.size >= MOST_CONNECTIONS) {
      tally.notSent++;
      return;
    }
    const sending = send(ports[n % ports.length] ?? 0).finally(() => underWay.delete(sending));
    underWay.add(sending);
  });
  await sleep(durationMs);
  load.stop();
  await Promise.all(underWay);
  for (const connection of idle) connection.destroy();
  return tally;
}

/** Acts so many times a second, however long each act takes: late acts are caught up. */
export function atSteadyRate(perSecond: number, act: (n: number) => void): { stop(): void } {
  const started = performance.now();
  let acts = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - started) / 1000) * perSecond; acts < due;) act(++acts);
  }, 5);
  return { stop: () => clearInterval(timer) };
}
