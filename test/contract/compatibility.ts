/** What this service's document is made of, with its references resolved. */
export interface Document {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}
interface Operation extends Record<string, unknown> {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: Body;
  readonly responses: Readonly<Record<string, Body & { readonly headers?: object }>>;
}
interface Parameter {
  readonly in: string;
  readonly name: string;
  readonly required?: boolean;
  readonly schema?: Schema;
}
interface Body {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}
interface Schema extends Record<string, unknown> {
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

/** Who sends what a schema describes. What is harmless in an answer can break a request, and the other way round. */
type Direction = 'request' | 'answer';

/**
 * What of a changed OpenAPI document breaks clients that were made for the one before. It knows local references, plain
 * schemas without combinations, and JSON bodies. The request of an operation marked `x-stability: experimental` may change.
 */
export function breakingChanges(before: Document, after: Document): string[] {
  const present = operationsOf(after);
  return [...operationsOf(before)].flatMap(([name, was]) => {
    const is = present.get(name);
    return is ? [...operationChanges(name, was, is)] : [`${name} is gone`];
  });
}

function operationsOf(document: Document): Map<string, Operation> {
  const { paths } = withoutReferences(document, document) as Document;
  return new Map(
    Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation]),
    ),
  );
}

function withoutReferences(node: unknown, document: object): unknown {
  if (typeof node !== 'object' || node === null) return node;
  if (Array.isArray(node)) return node.map((item) => withoutReferences(item, document));
  const { $ref } = node as { $ref?: string };
  if ($ref !== undefined) return withoutReferences($ref.slice(2).split('/').reduce(memberOf, document), document);
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, withoutReferences(value, document)]));
}

function memberOf(node: object, name: string): object {
  return (node as Record<string, object>)[name] ?? {};
}

function* operationChanges(name: string, was: Operation, is: Operation): Generator<string> {
  yield* differences(name, was, is, ['operationId', 'security', 'x-required-scope']);
  if (was['x-stability'] !== 'experimental') {
    yield* parameterChanges(name, was, is);
    yield* bodyChanges(`${name}: the body`, 'request', was.requestBody, is.requestBody);
  }
  for (const [status, answer] of Object.entries(was.responses)) {
    const where = `${name}: the answer ${status}`;
    const now = is.responses[status];
    if (now) {
      for (const header of outside(Object.keys(now.headers ?? {}), Object.keys(answer.headers ?? {}))) {
        yield `${where} lost its ${header}`;
      }
      yield* bodyChanges(where, 'answer', answer, now);
    } else if (status < '400') {
      yield `${where} is gone`; // a failure that no longer happens breaks nobody
    }
  }
}

function* parameterChanges(name: string, was: Operation, is: Operation): Generator<string> {
  const known = parametersOf(was);
  const present = parametersOf(is);
  for (const [where, parameter] of present) {
    if (parameter.required && !known.get(where)?.required) yield `${name}: the ${where} has become required`;
  }
  for (const [where, parameter] of known) {
    const now = present.get(where);
    if (now) yield* schemaChanges(`${name}: the ${where}`, 'request', parameter.schema ?? {}, now.schema ?? {});
    else yield `${name}: the ${where} is gone`;
  }
}

function parametersOf({ parameters = [] }: Operation): Map<string, Parameter> {
  return new Map(parameters.map((parameter) => [`${parameter.in} parameter ${parameter.name}`, parameter]));
}

function* bodyChanges(where: string, direction: Direction, was: Body = {}, is: Body = {}): Generator<string> {
  for (const [mediaType, { schema }] of Object.entries(was.content ?? {})) {
    const now = is.content?.[mediaType];
    if (now) yield* schemaChanges(where, direction, schema, now.schema);
    else yield `${where} is no longer ${mediaType}`;
  }
}

function* schemaChanges(where: string, direction: Direction, was: Schema, is: Schema): Generator<string> {
  yield* differences(where, was, is, ['type', 'format', 'pattern']);
  // A client keeps to what was, the service to what is: whatever one sends, the other has to take.
  const [sent, taken] = direction === 'request' ? [was, is] : [is, was];
  if (taken.enum)
    yield* outside(taken.enum, sent.enum ?? ['anything']).map((value) => `${where}: ${value} may be sent`);
  if ((taken.minimum ?? -Infinity) > (sent.minimum ?? -Infinity)) yield `${where}: less may be sent`;
  if ((taken.maximum ?? Infinity) < (sent.maximum ?? Infinity)) yield `${where}: more may be sent`;
  for (const name of outside(sent.required ?? [], taken.required ?? [])) yield `${where}: ${name} may be missing`;
  if (taken.additionalProperties === false && sent.additionalProperties !== false) {
    yield `${where}: other members may be sent`;
  }
  for (const [name, member] of Object.entries(was.properties ?? {})) {
    const now = is.properties?.[name];
    if (now) yield* schemaChanges(`${where}: ${name}`, direction, member, now);
    else yield `${where}: ${name} is gone`;
  }
  if (was.items) yield* schemaChanges(where, direction, was.items, is.items ?? {});
}

function* differences<Part extends Record<string, unknown>>(where: string, was: Part, is: Part, names: string[]) {
  for (const name of names) {
    const [before, after] = [JSON.stringify(was[name]), JSON.stringify(is[name])];
    if (before !== after) yield `${where}: ${name} was ${before} and is ${after}`;
  }
}

function outside(set: readonly unknown[], values: readonly unknown[]): string[] {
  return values.filter((value) => !set.includes(value)).map(String);
}
