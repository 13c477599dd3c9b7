/** Two names are near if one keystroke, or two in a long name, turns one into the other. Case and underscores do not count. */
export function isNear(name: string, wanted: string): boolean {
  const [one, other] = [name, wanted].map((each) => each.toUpperCase().replace(/[^A-Z0-9]/g, '')) as [string, string];
  return keystrokes(one, other) <= (other.length < 12 ? 1 : 2);
}

/** Letters to type, drop, replace or swap (the optimal string alignment distance). */
function keystrokes(one: string, other: string): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const at = (up: number, left: number) => (up === 0 ? row : rows[i - up])?.[j - left] ?? Infinity;
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row.push(
        Math.min(
          at(1, 0) + 1,
          at(0, 1) + 1,
          at(1, 1) + Number(one[i - 1] !== other[j - 1]),
          isSwapped ? at(2, 2) + 1 : Infinity,
        ),
      );
    }
    rows.push(row);
  }
  return rows[one.length]?.[other.length] ?? Infinity;
}
