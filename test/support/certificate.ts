import { generateKeyPairSync, sign } from 'node:crypto';

/** A certificate for a day that vouches for itself (RFC 5280), in PEM: the least that a TLS server needs. */
export function selfSignedCertificate(): { certificate: string; key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const algorithm = der(0x30, oid('2a8648ce3d040302')); // ecdsa-with-SHA256
  const commonName = der(0x30, oid('550403'), der(0x0c, Buffer.from('localhost')));
  const name = der(0x30, der(0x31, commonName));
  const validity = der(0x30, utcTime(Date.now() - 3_600_000), utcTime(Date.now() + 86_400_000));
  const subjectKey = publicKey.export({ type: 'spki', format: 'der' });
  const serial = der(0x02, Buffer.from([1]));
  const content = der(0x30, serial, algorithm, name, validity, name, subjectKey);
  const signature = sign('sha256', content, privateKey);
  const whole = der(0x30, content, algorithm, der(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = whole.toString('base64').replace(/.{64}/g, '$&\n');
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
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
