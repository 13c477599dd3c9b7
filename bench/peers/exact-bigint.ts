// The one-line way to make JSON.stringify print a bigint to the last digit, as an unquoted integer.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

Object.assign(BigInt.prototype, {
  toJSON(this: bigint) {
    return JSON.rawJSON(this.toString());
  },
});

export {};
