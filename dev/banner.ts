import { API_PREFIX } from '../src/http/api-prefix.ts';
import { readSettings } from '../src/settings.ts';
import { firstPet } from './project-database.ts';

/**
 * What to try first, ready to paste.
 *
 * @param settings those that the service was started with
 * @param address where it answers
 */
export async function banner(settings: NodeJS.ProcessEnv, address: string): Promise<string> {
  const { DATABASE_URL, BOOTSTRAP_API_KEY } = readSettings(settings);
  const isOwnStore = !process.env['DATABASE_URL'];
  const key = isOwnStore ? BOOTSTRAP_API_KEY : BOOTSTRAP_API_KEY ? '$BOOTSTRAP_API_KEY' : '$KEY';
  const pet = (await firstPet(DATABASE_URL)) ?? '<petId>';
  const base = `${address}/${API_PREFIX}`;
  const makeKey =
    key === '$KEY' ? '\n  Make a key: KEY=$(npm run --silent inventory -- keys create --name <who-holds-it>)\n' : '';
  return `
  API         ${base}
  Swagger UI  ${address}/docs
${makeKey}
  List the stock:
    curl -H "Authorization: Bearer ${key}" ${base}/inventory

  Set the quantity of a pet:
    curl -X PATCH -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
      -d '{"quantity": 5}' ${base}/inventory/${pet}
`;
}
