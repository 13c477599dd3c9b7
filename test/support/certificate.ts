import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';

/** A key pair with its certificate (RFC 5280), for a TLS server or an authority. */
interface Certificate {
  /** In PEM. */
  readonly certificate: string;
  /** In PEM. */
  readonly key: string;
  readonly subject: { readonly name: string; readonly key: KeyObject };
}

/**
 * A certificate for two days before now to a day after it.
 *
 * @param options.name the host, or the name of the authority
 * @param options.issuer the authority that signs it; by default it signs itself
 */
export function createCertificate({
  name = 'localhost',
  issuer,
}: { name?: string; issuer?: Certificate } = {}): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const algorithm = der(0x30, oid('2a8648ce3d040302')); // ecdsa-with-SHA256
  const validity = der(0x30, utcTime(Date.now() - 2 * 86_400_000), utcTime(Date.now() + 86_400_000));
  const subjectKey = publicKey.export({ type: 'spki', format: 'der' });
  const serial = der(0x02, Buffer.from([1]));
  const authority = issuer?.subject ?? { name, key: privateKey };
  const content = der(
    0x30,
    serial,
    algorithm,
    distinguishedName(authority.name),
    validity,
    distinguishedName(name),
    subjectKey,
  );
  const signature = sign('sha256', content, authority.key);
  const whole = der(0x30, content, algorithm, der(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = whole.toString('base64').replace(/.{1,64}/g, '$&\n');
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    subject: { name, key: privateKey },
  };
}

function distinguishedName(commonName: string): Buffer {
  return der(0x30, der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(commonName)))));
}

/** One element of ASN.1 in its distinguished encoding. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

function utcTime(ms: number): Buffer {
  return der(0x17, Buffer.from(new Date(ms).toISOString().replace(/^..|[-:T]|\..*$/g, '') + 'Z'));
}
