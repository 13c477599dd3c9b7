const base = `${process.env.INVENTORY_URL}/inventory`;
const authorization = { Authorization: `Bearer ${process.env.INVENTORY_KEY}` };

/** Takes every digit of a petId from the text. */
const parse = (text) => JSON.parse(text, (name, value, { source }) => (name === 'petId' ? BigInt(source) : value));

async function call(url, { headers, ...rest }) {
  const signal = AbortSignal.timeout(10_000);
  const response = await fetch(url, { ...rest, headers: { ...authorization, ...headers }, signal });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text && parse(text) };
}

const failure = ({ body }) => Object.assign(new Error(body.message), { code: body.code });

let known = { etag: '', items: [] };

async function list() {
  const response = await call(base, { headers: { 'If-None-Match': known.etag } });
  if (response.status >= 400) throw failure(response);
  if (response.status === 200) known = { etag: response.headers.get('ETag'), items: response.body };
  return known.items;
}

/** Sets the quantity, once, of an item that is still as it was read. The history keeps the reason. */
async function setQuantity(item, quantity, reason = 'adjustment') {
  const headers = {
    'Content-Type': 'application/json',
    'If-Match': `"${item.status}-${item.quantity}"`,
    'Idempotency-Key': crypto.randomUUID(),
    'Change-Reason': reason,
  };
  const update = { method: 'PATCH', headers, body: JSON.stringify({ quantity }) };
  for (let attempt = 1; attempt <= 10; attempt++) {
    // No response of the service: the connection broke or took too long, or a proxy sent something else.
    const response = await call(`${base}/${item.petId}`, update).catch(() => undefined);
    if (response?.status === 200) return response.body;
    if (response && response.status < 500 && ![408, 429].includes(response.status)) throw failure(response);
    const retryAfterMs = 1000 * Number(response?.headers.get('Retry-After'));
    const pauseMs = Math.max(retryAfterMs || 0, Math.min(100 * 2 ** attempt, 10_000));
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (1 + Math.random())));
  }
  throw Object.assign(new Error('The update may or may not have happened.'), { code: 'outcome_unknown' });
}

const [first] = await list();
console.log(await setQuantity(first, first.quantity + 1, 'new-arrival'));
