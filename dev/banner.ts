import { API_PREFIX } from '../src/http/api-prefix.ts';

/**
 * What to try first, ready to paste.
 *
 * @param address where the service answers
 * @param key the API key, or the variable that holds it
 * @param pet the identifier of a pet in the stock
 */
export function banner(address: string, key: string, pet = '<petId>'): string {
  const base = `${address}/${API_PREFIX}`;
  const makeKey = '\n  Make a key: KEY=$(npm run --silent inventory -- keys create --name <who-holds-it>)\n';
  return `
  API         ${base}
  Swagger UI  ${address}/docs
${key === '$KEY' ? makeKey : ''}
  List the stock:
    curl -H "Authorization: Bearer ${key}" ${base}/inventory

  Set the quantity of a pet:
    curl -X PATCH -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
      -d '{"quantity": 5}' ${base}/inventory/${pet}
`;
}
