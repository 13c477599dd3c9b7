import { Connection, type Answer, type Question } from '../test/support/http-client.ts';

export type ShotListener = (answer: Answer | undefined, durationMs: number, shot: Question) => void;

const GIVE_UP_MS = 15_000;
const TICK_MS = 5;
const MOST_CONNECTIONS = 4_000;

/**
 * Sends requests at a fixed rate, whether or not the earlier ones were answered: what comes from a crowd that does not
 * know of each other. A listener gets no answer where the connection was lost or refused.
 *
 * @param perSecond requests a second
 * @returns how many requests were sent, and how many could not be for want of connections
 */
export async function openLoad(
  ports: readonly number[],
  perSecond: number,
  durationMs: number,
  next: () => Question,
  listener: ShotListener,
): Promise<{ sent: number; notSent: number }> {
  const idle: Connection[] = [];
  const underWay = new Set<Promise<void>>();
  const tally = { sent: 0, notSent: 0 };
  const startedAt = performance.now();

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

  await new Promise<void>((resolve) => {
    const ticker = setInterval(() => {
      const elapsedMs = performance.now() - startedAt;
      for (let due = Math.floor((elapsedMs / 1_000) * perSecond) - tally.sent - tally.notSent; due > 0; due--) {
        if (underWay.size >= MOST_CONNECTIONS) {
          tally.notSent++;
          continue;
        }
        const shooting = shoot();
        underWay.add(shooting);
        void shooting.then(() => underWay.delete(shooting));
      }
      if (elapsedMs < durationMs) return;
      clearInterval(ticker);
      resolve();
    }, TICK_MS);
  });
  await Promise.all(underWay);
  for (const connection of idle) connection.destroy();
  return tally;
}
