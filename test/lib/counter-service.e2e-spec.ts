import { describe, expect, it } from 'vitest';
import { type Database, createDatabase } from '../support/database.ts';
import { type Question, ask } from '../support/http-client.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { atTestEnd } from '../support/test-end.ts';
import { COUNTER, startCounter } from './counter-service.ts';

const put = (body: string): Question => ({
  method: 'PUT',
  target: '/counter',
  headers: [['Content-Type', 'application/json']],
  body,
});
const get: Question = { target: '/counter' };
const error = (code: string, message: string, status: number) => ({ code, message, status });

async function start(connect = ({ url }: Database) => Promise.resolve(url)) {
  const database = await createDatabase({ migrated: false });
  await database.sql(COUNTER);
  const service = await startCounter(await connect(database));
  await atTestEnd(async () => {
    service.app.getHttpServer().closeAllConnections();
    await service.app.close();
    await service.counter.close();
  });
  const answer = async (question: Question) => {
    const { status, text } = await ask(service.port, question);
    return [status, text];
  };
  const refusal = async (question: Question) => {
    const { status, text } = await ask(service.port, question);
    return [status, JSON.parse(text) as unknown];
  };
  return { ...service, database, answer, refusal };
}

describe('a second service on the libraries', () => {
  it('answers with every digit, and refuses with an Error', async () => {
    const { answer, refusal } = await start();
    expect(await answer(get)).toEqual([200, '{"value":9007199254740993}']);
    expect(await answer(put('{"value": 5}'))).toEqual([200, '{"value":5}']);
    expect(await refusal({ target: '/none' })).toEqual([
      404,
      error('not_found', 'There is nothing at this path.', 404),
    ]);
    expect(await refusal({ method: 'PATCH', target: '/counter' })).toEqual([
      405,
      error('method_not_allowed', 'This path takes GET, HEAD, OPTIONS, PUT only.', 405),
    ]);
    expect(await refusal(put('{"value": 5, "step": 1}'))).toEqual([
      400,
      error('validation_failed', 'step is unknown: the body has only value.', 400),
    ]);
    expect(await refusal(put('{"value": 1, "value": 2}'))).toEqual([
      400,
      error('bad_request', 'value is there more than once.', 400),
    ]);
    expect(await answer(get)).toEqual([200, '{"value":5}']);
  });

  it('fails by the deadline while somebody holds the row, and has written nothing', async () => {
    const { database, refusal, answer } = await start();
    const holder = await database.session('SELECT FROM counter FOR UPDATE');
    expect(await refusal(put('{"value": 5}'))).toEqual([
      503,
      error('try_again', 'Nothing was written: try again.', 503),
    ]);
    await holder.end();
    expect(await answer(get)).toEqual([200, '{"value":9007199254740993}']);
  });

  it('does not know what became of an update whose connection breaks before the answer', async () => {
    let network: TcpProxy | undefined;
    const { answer, refusal } = await start((database) => {
      network = new TcpProxy(database.url);
      return network.listen();
    });
    await answer(get); // connects
    network?.cutBeforeAnswer(1);
    expect(await refusal(put('{"value": 5}'))).toEqual([
      503,
      error('outcome_unknown', 'The counter may or may not be set: read it.', 503),
    ]);
    expect(await answer(get)).toEqual([200, '{"value":5}']); // it was
  });
});

it('gives the operator the words of the service', async () => {
  const { database, counter } = await start();
  await database.sql('DROP TABLE counter');
  await expect(counter.call(5)).rejects.toThrow('there is no table "counter": make it first');
});
