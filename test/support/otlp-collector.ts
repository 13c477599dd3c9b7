import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { atTestEnd } from './test-end.ts';

/** A span as it came over the wire. Ids are in hexadecimal, times in nanoseconds. */
export interface ReceivedSpan {
  readonly name: string;
  readonly kind: 'SERVER' | 'CLIENT' | undefined;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly startedAt: bigint;
  readonly endedAt: bigint;
  readonly attributes: Attributes;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly hasFailed: boolean;
}
type Attributes = Readonly<Record<string, string | number | undefined>>;

/** The fields of a message of protobuf, by their numbers. */
type Message = ReadonlyMap<number, readonly (bigint | Buffer)[]>;

function messageOf(bytes: Buffer): Message {
  const fields = new Map<number, (bigint | Buffer)[]>();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(bytes[at++] ?? 0);
      value |= (byte & 127n) << shift;
      if (byte < 128n) return value;
    }
  };
  const next = (length: number) => bytes.subarray(at, (at += length));
  while (at < bytes.length) {
    const tag = Number(varint());
    const [number, type] = [tag >> 3, tag & 7];
    const value = type === 0 ? varint() : type === 2 ? next(Number(varint())) : next(type === 1 ? 8 : 4);
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const bytesOf = (message: Message, number: number) => (message.get(number)?.[0] ?? Buffer.alloc(0)) as Buffer;
const textOf = (message: Message, number: number) => bytesOf(message, number).toString();
const idOf = (message: Message, number: number) => bytesOf(message, number).toString('hex');
const messagesOf = (message: Message, number: number) =>
  (message.get(number) ?? []).map((each) => messageOf(each as Buffer));

function attributesOf(message: Message, number: number): Attributes {
  const pairs = messagesOf(message, number).map((pair) => {
    const value = messageOf(bytesOf(pair, 2));
    return [textOf(pair, 1), value.has(3) ? Number(value.get(3)?.[0]) : textOf(value, 1)] as const;
  });
  return Object.fromEntries(pairs);
}

function spanOf(span: Message): ReceivedSpan {
  const [status] = messagesOf(span, 15);
  return {
    name: textOf(span, 5),
    kind: ({ 2: 'SERVER', 3: 'CLIENT' } as const)[Number(span.get(6)?.[0])],
    traceId: idOf(span, 1),
    spanId: idOf(span, 2),
    parentId: idOf(span, 4),
    startedAt: bytesOf(span, 7).readBigUInt64LE(),
    endedAt: bytesOf(span, 8).readBigUInt64LE(),
    attributes: attributesOf(span, 9),
    links: messagesOf(span, 13).map((link) => ({ traceId: idOf(link, 1), spanId: idOf(link, 2) })),
    hasFailed: status?.get(3)?.[0] === 2n,
  };
}

/**
 * Receives spans by OTLP over HTTP, as a collector of OpenTelemetry does.
 *
 * @param answer what it does with a request in place of taking it
 */
export async function startCollector(answer?: RequestListener) {
  const spans: ReceivedSpan[] = [];
  const requests: { readonly url: string | undefined; readonly authorization: string | undefined }[] = [];
  const resources: Attributes[] = [];
  let received = '';
  const collector = {
    url: '',
    /** All that came so far. */
    spans,
    requests,
    resources,
    received: () => received,
    answer,
  };
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      requests.push({ url: request.url, authorization: request.headers.authorization });
      if (collector.answer) {
        collector.answer(request, response);
        return;
      }
      received += body.toString('latin1');
      for (const group of messagesOf(messageOf(body), 1)) {
        resources.push(...messagesOf(group, 1).map((resource) => attributesOf(resource, 1)));
        for (const scope of messagesOf(group, 2)) spans.push(...messagesOf(scope, 2).map(spanOf));
      }
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await atTestEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return collector;
}
