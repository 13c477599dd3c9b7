/** Every API key begins so. */
export const KEY_PREFIX = 'psk_';

const MOST_OF_A_KEY = new RegExp(`${KEY_PREFIX}[0-9A-Za-z]{32}`);

/** A text that holds most of an API key is never written down. */
export const holdsKey = (text: string) => MOST_OF_A_KEY.test(text);

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`${KEY_PREFIX}[0-9A-Za-z]+`, 'g'), '[key]'],
  [/(bearer\s+)[^\s"']+/gi, '$1[key]'],
  [/(:\/\/[^:/\s]*:)[^@\s]*@/g, '$1[password]@'],
];

export function withoutSecrets(text: string): string {
  return SECRETS.reduce((clean, [secret, instead]) => clean.replace(secret, instead), text);
}
