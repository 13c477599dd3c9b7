/** A part of an OpenAPI document or of a schema in it. */
type Node = Readonly<Record<string, unknown>>;

/** Who sends what a schema describes. What is harmless in an answer can break a request, and the other way round. */
type Direction = 'request' | 'answer';

/**
 * What of a changed OpenAPI document breaks clients that were made for the one before: they may fail to be understood, or fail to
 * understand. It knows what this service's document is made of, which is less than all of OpenAPI: local references, plain
 * schemas without combinations, JSON bodies.
 *
 * The request of an operation marked `x-stability: experimental` may change.
 */
export function breakingChanges(before: Node, after: Node): string[] {
  return [...operations(before)].flatMap(([name, operation]) => {
    const next = operations(after).get(name);
    if (!next) return [`${name}: is gone`];
    const isExperimental = operation['x-stability'] === 'experimental';
    return [
      ...differences(name, operation, next, ['operationId', 'security', 'x-required-scope']),
      ...(isExperimental ? [] : requestChanges(name, [before, operation], [after, next])),
      ...answerChanges(name, [before, operation], [after, next]),
    ];
  });
}

function requestChanges(name: string, [before, operation]: [Node, Node], [after, next]: [Node, Node]): string[] {
  const parameters = parametersOf(next);
  const known = parametersOf(operation);
  const added = [...parameters].filter(([key, parameter]) => !known.has(key) && parameter['required'] === true);
  return [
    ...added.map(([key]) => `${name}: the ${key} is new and required`),
    ...[...known].flatMap(([key, parameter]) => {
      const where = `${name}: the ${key}`;
      const now = parameters.get(key);
      if (!now) return [`${where} is gone`];
      return [
        ...(now['required'] === true && parameter['required'] !== true ? [`${where} has become required`] : []),
        ...schemaChanges(where, 'request', [before, at(parameter, 'schema')], [after, at(now, 'schema')]),
      ];
    }),
    ...contentChanges(
      `${name}: the body`,
      'request',
      [before, at(operation, 'requestBody')],
      [after, at(next, 'requestBody')],
    ),
  ];
}

function answerChanges(name: string, [before, operation]: [Node, Node], [after, next]: [Node, Node]): string[] {
  return Object.entries(at(operation, 'responses')).flatMap(([status, answer]) => {
    const where = `${name}: the answer ${status}`;
    const now = at(next, 'responses')[status];
    // A failure that no longer happens breaks nobody.
    if (now === undefined) return status < '400' ? [`${where} is gone`] : [];
    return [
      ...Object.keys(at(answer as Node, 'headers'))
        .filter((header) => !(header in at(now as Node, 'headers')))
        .map((header) => `${where} lost its ${header}`),
      ...contentChanges(where, 'answer', [before, answer as Node], [after, now as Node]),
    ];
  });
}

function contentChanges(
  where: string,
  direction: Direction,
  [before, part]: [Node, Node],
  [after, next]: [Node, Node],
): string[] {
  return Object.entries(at(part, 'content')).flatMap(([mediaType, content]) => {
    const now = at(next, 'content')[mediaType];
    if (now === undefined) return [`${where} is no longer ${mediaType}`];
    return schemaChanges(where, direction, [before, at(content as Node, 'schema')], [after, at(now as Node, 'schema')]);
  });
}

function schemaChanges(
  where: string,
  direction: Direction,
  [before, one]: [Node, Node],
  [after, other]: [Node, Node],
): string[] {
  const [was, is] = [resolved(before, one), resolved(after, other)];
  // A client keeps to what was, the service to what is: whatever one sends, the other has to take.
  const [sent, taken] = direction === 'request' ? [was, is] : [is, was];
  const [members, nowMembers] = [at(was, 'properties'), at(is, 'properties')];
  return [
    ...differences(where, was, is, ['type', 'format', 'pattern']),
    ...outside(taken['enum'], sent['enum']).map((value) => `${where}: ${value} may be sent and is not expected`),
    ...(bound(taken, 'minimum', -Infinity) > bound(sent, 'minimum', -Infinity) ? [`${where}: less may be sent`] : []),
    ...(bound(taken, 'maximum', Infinity) < bound(sent, 'maximum', Infinity) ? [`${where}: more may be sent`] : []),
    ...outside(sent['required'] ?? [], taken['required'] ?? []).map(
      (name) => `${where}: ${name} is required and may be missing`,
    ),
    ...(taken['additionalProperties'] === false && sent['additionalProperties'] !== false
      ? [`${where}: other members may be sent`]
      : []),
    ...Object.entries(members).flatMap(([name, member]) =>
      nowMembers[name] === undefined
        ? [`${where}: ${name} is gone`]
        : schemaChanges(`${where}: ${name}`, direction, [before, member as Node], [after, nowMembers[name] as Node]),
    ),
    ...(was['items'] ? schemaChanges(where, direction, [before, at(was, 'items')], [after, at(is, 'items')]) : []),
  ];
}

function differences(where: string, was: Node, is: Node, names: readonly string[]): string[] {
  return names
    .filter((name) => JSON.stringify(was[name]) !== JSON.stringify(is[name]))
    .map((name) => `${where}: ${name} was ${JSON.stringify(was[name])} and is ${JSON.stringify(is[name])}`);
}

/** The values that lie outside a set. No set takes everything; no values stand for anything. */
function outside(set: unknown, values: unknown): string[] {
  if (!Array.isArray(set)) return [];
  return ((values ?? ['anything']) as unknown[]).filter((value) => !set.includes(value)).map(String);
}

function operations(document: Node): Map<string, Node> {
  return new Map(
    Object.entries(at(document, 'paths')).flatMap(([path, methods]) =>
      Object.entries(methods as Node).map(([method, operation]) => [
        `${method.toUpperCase()} ${path}`,
        operation as Node,
      ]),
    ),
  );
}

function parametersOf(operation: Node): Map<string, Node> {
  const parameters = (operation['parameters'] ?? []) as Node[];
  return new Map(
    parameters.map((parameter) => [`${String(parameter['in'])} parameter ${String(parameter['name'])}`, parameter]),
  );
}

function resolved(document: Node, schema: Node): Node {
  const { $ref } = schema as { $ref?: string };
  return $ref === undefined ? schema : $ref.slice(2).split('/').reduce(at, document);
}

function at(node: Node, name: string): Node {
  return (node[name] ?? {}) as Node;
}

function bound(schema: Node, name: string, none: number): number {
  return typeof schema[name] === 'number' ? schema[name] : none;
}
