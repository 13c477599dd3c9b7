import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { expect, it, vi } from 'vitest';

type Props = Record<string, unknown>;
interface Element {
  readonly of: unknown;
  readonly props: Props;
  readonly children: unknown[];
}
type Wrap<Original = unknown> = (original: Original, system?: object) => (props: Props) => Element | false;
interface Page extends Props {
  responseInterceptor: (response: object) => Props & { text: string };
  plugins: [
    (system: object) => {
      statePlugins: {
        auth: { wrapActions: { authorize: (original: (schemes: object) => object) => (schemes: object) => object } };
        spec: { wrapActions: { clearValidateParams: (original: unknown, system: object) => (at: string[]) => void } };
      };
      wrapComponents: Record<'responseBody' | 'SyntaxHighlighter' | 'execute' | 'JsonSchema_string', Wrap>;
    },
  ];
}

/** What the page gives to Swagger UI, without a browser; `npm test -- --project browser` looks at both in one. */
function open() {
  const SwaggerUIBundle = Object.assign(vi.fn<(page: Page) => void>(), { presets: { apis: 'apis' } });
  const document = { getElementById: (id: string) => `#${id}` };
  runInNewContext(readFileSync(`${import.meta.dirname}/page/docs.js`, 'utf8'), { document, SwaggerUIBundle });
  const [[page]] = SwaggerUIBundle.mock.calls as [[Page]];
  const createElement = (of: unknown, props: Props, ...children: unknown[]): Element => ({ of, props, children });
  let memo: { deps: unknown[]; made: unknown } | undefined;
  const useMemo = (make: () => unknown, deps: unknown[]) => {
    if (!memo || deps.some((dep, at) => dep !== memo?.deps[at])) memo = { deps, made: make() };
    return memo.made;
  };
  const React = { createElement, Fragment: 'fragment', useMemo };
  return { page, ...page.plugins[0]({ React }) };
}

it('the page asks its own service alone, forgets the key, and shows all that the document has', () => {
  const settings = { domNode: '#docs', url: 'openapi.json', validatorUrl: null, persistAuthorization: false };
  const shown = { deepLinking: true, docExpansion: 'list', displayRequestDuration: true, showExtensions: true };
  expect(open().page).toMatchObject({ ...settings, ...shown, tryItOutEnabled: true, presets: ['apis'] });
});

it('the page shows the document without bounds that a browser rounds and without examples in header fields', () => {
  const text = readFileSync('openapi.json', 'utf8');
  const answer = open().page.responseInterceptor({ url: 'http://a/openapi.json', status: 200, text });
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.text).not.toMatch(/"m\w+imum":-?9/);
  expect(answer.text).toContain('"maximum":2147483647');
  const { paths } = JSON.parse(answer.text) as typeof import('../../openapi.json');
  const parameters = [...paths['/inventory'].get.parameters, ...paths['/inventory/{petId}'].patch.parameters];
  const schemas = parameters.map(({ in: place, schema }) => [place, Object.keys(schema).length > 1, schema.type]);
  expect(new Set(schemas.map(String))).toEqual(new Set(['header,false,string', 'path,true,integer']));
});

it('the page shows a response indented with every digit, and of a long list the first 200 pets', () => {
  const { page, wrapComponents } = open();
  const show = (children: string, className?: string) =>
    (wrapComponents.SyntaxHighlighter('original')({ className, children }) as Element).children as [Element?, Element?];
  const shown = (text: string) => show(text, 'microlight response-json');
  const error = '{"code":"x","message":"a \\" {b}: [c]","status":400,"e":[],"f":{},"g":[1,{"h":null}]}';
  for (const json of [error, `[${Array(200).fill('{"petId":1}').join()}]`]) {
    expect(shown(json)).toMatchObject([undefined, { of: 'original', children: [expect.any(String)] }]);
    expect(shown(json)[1]?.children[0]).toBe(JSON.stringify(JSON.parse(json), null, 2));
  }
  expect(shown('{"petId":9223372036854775807}')[1]?.children[0]).toBe('{\n  "petId": 9223372036854775807\n}');
  const [note, list] = shown(`[${Array(1_201).fill('{"petId":1}').join()}]`);
  expect(note).toMatchObject({ props: { className: 'shown-of' } });
  expect(note?.children).toEqual(['The first 200 of 1,201 are shown; Download has all.']);
  expect(JSON.parse(String(list?.children[0]))).toHaveLength(200);
  expect(shown('{"a":1}')[1]?.children).toEqual(['{\n  "a": 1\n}']);
  expect(show('{"a":1}')[1]?.children).toEqual(['{"a":1}']); // a request
  const split = vi.fn(() => ['{}']);
  // Swagger UI renders the response again at each key press.
  for (const text of Array(2).fill({ split, replace: () => '{}' }) as string[]) shown(text);
  expect(split).toHaveBeenCalledOnce();

  const getComponent = (name: string, isContainer?: boolean) => isContainer && name;
  const body = (contentType?: string) =>
    wrapComponents.responseBody('original')({ contentType, content: '{}', getComponent }) as Element;
  const code = {
    className: 'response-json',
    language: 'json',
    downloadable: true,
    canCopy: true,
    fileName: 'response.json',
  };
  expect(body('application/json').children).toMatchObject([
    { of: 'h5', children: ['Response body'] },
    { of: 'HighlightCode', props: code, children: ['{}'] },
  ]);
  expect([body('text/plain').of, body().of]).toEqual(['original', 'original']);
  const kept = page.responseInterceptor({ url: '/x', headers: {}, text: '{}', body: '{}', obj: {} });
  expect(kept).toEqual({ url: '/x', headers: {}, text: '{}', body: undefined, obj: undefined });
});

it('the page offers the tag that holds: of the list, of an item in the list, or of the last answer about the pet', () => {
  const { page, wrapComponents } = open();
  const onChange = vi.fn();
  const field = (description: string, petId?: string, more: Props = {}) => {
    const specSelectors = {
      parameterValues: (of: string[]) =>
        new Map(of.join() === '/inventory/{petId},patch' ? [['path.petId', petId]] : []),
    };
    const element = wrapComponents.JsonSchema_string('original', { specSelectors })({ description, onChange, ...more });
    return (element as Element).children as [Element, Element[] & Partial<Element>];
  };
  const tag = (...of: Parameters<typeof field>) => field(...of)[1].children?.[0];
  const list = (etag: string, text: string, status = 200) =>
    page.responseInterceptor({ url: 'http://a/v1/inventory', status, headers: { etag }, text });
  const update = (petId: string, etag?: string) =>
    page.responseInterceptor({ url: `http://a/v1/inventory/${petId}`, status: 412, headers: { etag }, text: '{}' });

  expect([tag('If-None-Match'), tag('If-Match', '1')]).toEqual([undefined, undefined]);
  list('"L1"', '[{"petId":-11,"quantity":5,"status":"sold"},{"petId":1,"quantity":17,"status":"pending"}]');
  expect(tag('If-None-Match')).toBe('Use "L1"');
  expect(['1', '-11', '-1', '\\d', undefined].map((petId) => tag('If-Match', petId))).toEqual([
    ...['Use "pending-17"', 'Use "sold-5"'],
    ...[undefined, undefined, undefined],
  ]);
  update('1', '"pending-18"');
  update('-11');
  list('"L1"', '', 304);
  expect([tag('If-Match', '1'), tag('If-Match', '-11')]).toEqual(['Use "pending-18"', 'Use "sold-5"']);
  list('"L2"', '[{"petId":1,"quantity":19,"status":"pending"}]');
  expect([tag('If-None-Match'), tag('If-Match', '1')]).toEqual(['Use "L2"', 'Use "pending-19"']);

  const [input, button] = field('If-Match', '1');
  expect(input).toMatchObject({ of: 'original', props: { description: '"pending-19"' } });
  expect(button).toMatchObject({ of: 'button', props: { type: 'button', className: 'btn current-tag' } });
  (button.props?.['onClick'] as () => void)();
  expect(onChange).toHaveBeenCalledWith('"pending-19"');
  expect(field('If-Match', '1', { disabled: true })).toMatchObject([{ props: { description: 'If-Match' } }, []]);
  const [, errors] = field('petId', '1', { errors: ['wrong'] });
  expect(errors).toMatchObject([{ props: { className: 'field-error' }, children: ['wrong'] }]);
});

it('the page takes a pasted key, clears what was shown, and has no button before its operation', () => {
  const { statePlugins, wrapComponents } = open();
  const authorize = statePlugins.auth.wrapActions.authorize((schemes) => schemes);
  for (const value of ['k', '  Bearer k\t', 'bearer  k']) {
    expect(authorize({ apiKey: { name: 'apiKey', value } })).toEqual({ apiKey: { name: 'apiKey', value: 'k' } });
  }
  const calls = { clearResponse: vi.fn(), clearRequest: vi.fn(), original: vi.fn() };
  statePlugins.spec.wrapActions.clearValidateParams(calls.original, { specActions: calls })(['/p', 'patch']);
  expect(Object.values(calls).map(({ mock }) => mock.calls)).toEqual([
    ...[[['/p', 'patch']], [['/p', 'patch']]],
    [[['/p', 'patch']]],
  ]);
  const execute = wrapComponents.execute('original');
  expect([execute({ operation: { size: 0 } }), execute({ operation: { size: 1 } })]).toMatchObject([false, {}]);
});
