import autocannon from 'autocannon';
import type { LoadPlan, LoadResult } from './load.ts';

/** The same load as load.lua makes, from within this process. */
export async function loadByAutocannon(plan: LoadPlan, firstQuantity: number): Promise<LoadResult> {
  const { url, headers, connections, seconds, mode, pets, perSecond } = plan;
  let sent = firstQuantity;
  const update = (request: autocannon.Request): autocannon.Request => ({
    ...request,
    method: 'PATCH',
    path: `/v1/inventory/${mode === 'hot' ? 1 : 1 + Math.floor(Math.random() * pets)}`,
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: `{"quantity":${++sent}}`,
  });
  const setupRequest = (request: autocannon.Request) =>
    mode === 'mixed' && Math.random() < 0.9 ? request : update(request);

  const result = await autocannon({
    url,
    headers,
    connections,
    duration: seconds,
    timeout: 60,
    ...(perSecond === undefined ? {} : { overallRate: perSecond }),
    ...(mode === 'list' ? {} : { requests: [{ setupRequest }] }),
  });
  return {
    requests: result.requests.total,
    seconds: result.duration,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failures: result['4xx'] + result['5xx'] + result.errors,
    bytes: result.throughput.total,
  };
}
