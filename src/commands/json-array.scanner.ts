const [TAB, NEWLINE, RETURN, SPACE, QUOTE, COMMA] = [9, 10, 13, 32, 34, 44] as const;
const [OPEN_ARRAY, BACKSLASH, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [91, 92, 93, 123, 125] as const;

export interface JsonItem {
  readonly text: string;
  /** Where it begins, counted from 1. */
  readonly line: number;
}

/**
 * Cuts the text of a JSON array into the texts of its items. It looks only at strings, brackets and commas;
 * whether an item is JSON is for JSON.parse to say.
 */
export class JsonArrayScanner {
  /** The line it has come to. */
  line = 1;
  /** Why it is no JSON array of objects; nothing is read from there on. */
  fault: string | undefined;
  readonly #longestItem: number;
  #state: 'before' | 'item or end' | 'item' | 'after item' | 'after' = 'before';
  /** Brackets open inside the array; 0 between its items. */
  #depth = 0;
  #inString = false;
  #escaped = false;
  #item = '';
  #itemLine = 1;

  /** @param longestItem characters; a longer one is a fault, so that memory stays bounded */
  constructor(longestItem: number) {
    this.#longestItem = longestItem;
  }

  /** Takes the next piece of the text and returns the items that it completes. */
  scan(text: string): JsonItem[] {
    const items: JsonItem[] = [];
    let start = 0;
    for (let at = 0; at < text.length && !this.fault; at++) {
      const char = text.charCodeAt(at);
      if (char === NEWLINE) this.line++;
      if (this.#depth === 0) {
        if (char === SPACE || char === NEWLINE || char === RETURN || char === TAB) continue;
        if (this.#begins(char)) {
          start = at;
          this.#itemLine = this.line;
        }
      } else if (this.#inside(char)) {
        items.push({ text: this.#item + text.slice(start, at + 1), line: this.#itemLine });
        this.#item = '';
      }
    }
    if (this.#depth > 0) {
      this.#item += text.slice(start);
      if (this.#item.length > this.#longestItem) this.fault = `an item is longer than ${this.#longestItem} characters`;
    }
    return items;
  }

  faultAtEnd(): string | undefined {
    if (this.#state === 'after') return undefined;
    return this.#state === 'before' ? 'a JSON array is missing' : 'the JSON array is never closed';
  }

  /** Outside of any item; true when one begins here. */
  #begins(char: number): boolean {
    switch (this.#state) {
      case 'before':
        if (char !== OPEN_ARRAY) this.fault = 'must be one JSON array of objects';
        this.#state = 'item or end';
        return false;
      case 'item or end':
      case 'item':
        if (char === OPEN_OBJECT) this.#depth = 1;
        else if (char === CLOSE_ARRAY && this.#state === 'item or end') this.#state = 'after';
        else this.fault = 'an item of the array must be a JSON object';
        return char === OPEN_OBJECT;
      case 'after item':
        if (char !== COMMA && char !== CLOSE_ARRAY) this.fault = 'a comma or the end of the array is missing';
        this.#state = char === COMMA ? 'item' : 'after';
        return false;
      case 'after':
        this.fault = 'something follows the end of the array';
        return false;
    }
  }

  /** Inside an item; true at its last character. */
  #inside(char: number): boolean {
    if (this.#escaped) this.#escaped = false;
    else if (this.#inString) {
      if (char === BACKSLASH) this.#escaped = true;
      else if (char === QUOTE) this.#inString = false;
    } else if (char === QUOTE) this.#inString = true;
    else if (char === OPEN_OBJECT || char === OPEN_ARRAY) this.#depth++;
    else if ((char === CLOSE_OBJECT || char === CLOSE_ARRAY) && --this.#depth === 0) {
      this.#state = 'after item';
      return true;
    }
    return false;
  }
}
