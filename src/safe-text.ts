/** Every API key begins so. */
export const KEY_PREFIX = 'psk_';

const MOST_OF_A_KEY = new RegExp(`${KEY_PREFIX}[0-9A-Za-z]{32}`);

/** How many pets a command names; it counts the others. Of problems, it also shows the first of each further kind. */
export const SHOWN_AT_MOST = 20;

/** A text that holds most of an API key is never written down. */
export const holdsKey = (text: string) => MOST_OF_A_KEY.test(text);

/** The form of a client's text that goes into the log or the history. */
export const LONGEST_NAME = 64;
export const SAFE_NAME = new RegExp(`^[A-Za-z0-9_-]{1,${LONGEST_NAME}}$`);
export const SAFE_NAME_RULE = `1 to ${LONGEST_NAME} of the characters A-Z, a-z, 0-9, _ and -, and no API key`;
export const isSafeName = (text: string) => SAFE_NAME.test(text) && !holdsKey(text);

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`${KEY_PREFIX}[0-9A-Za-z]+`, 'g'), '[key]'],
  [/(bearer\s+)[^\s"']+/gi, '$1[key]'],
  [/(:\/\/[^:/\s]*:)[^@\s]*@/g, '$1[password]@'],
  [/(:\/\/)[^:/@\s]+@/g, '$1[user]@'], // which may be a token
  [/(valid HTTP token )\["[^]*?"\]/g, '$1[name]'], // of a header that was written as `name: secret`
];

export function withoutSecrets(text: string): string {
  return SECRETS.reduce((clean, [secret, instead]) => clean.replace(secret, instead), text);
}

/** Replaces line breaks, control and format characters, which could steer a terminal. */
export const withoutControls = (text: string) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd');

/** The beginning of a text from outside, harmless for terminals. */
export const excerpt = (text: string) => withoutControls(text.length > 40 ? `${text.slice(0, 40)}…` : text);
