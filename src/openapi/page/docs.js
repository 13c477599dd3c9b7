/* global document, SwaggerUIBundle */

/** Of a list that is longer, only the first are shown. */
const SHOWN_ITEMS = 200;

const isRounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/**
 * The document as it is shown: without bounds that a browser would round, and with headers that start empty, where
 * Swagger UI would send their examples and keep what is malformed from being tried.
 */
function shownDocument(text) {
  const api = JSON.parse(text, (_name, value) => (isRounded(value) ? undefined : value));
  for (const { parameters } of Object.values(api.paths).flatMap(Object.values)) {
    for (const parameter of parameters) {
      if (parameter.in === 'header') parameter.schema = { type: 'string' };
    }
  }
  return JSON.stringify(api);
}

/** Indents compact JSON by its text alone: parsed, a petId beyond 2^53 would lose digits. */
function indented(json) {
  let line = '\n';
  return json.replace(/"(?:[^"\\]|\\.)*"|\[\]|\{\}|[[\]{},:]/g, (token) => {
    if (token === '{' || token === '[') return token + (line += '  ');
    if (token === '}' || token === ']') return (line = line.slice(0, -2)) + token;
    if (token === ',') return token + line;
    return token === ':' ? ': ' : token;
  });
}

/** What is shown of a response, which is an Error, an item or a list of flat items. */
function shownResponse(json) {
  const items = json.split('},{');
  if (items.length <= SHOWN_ITEMS) return { text: indented(json) };
  const [shown, all] = [SHOWN_ITEMS, items.length].map((count) => count.toLocaleString('en'));
  return {
    text: indented(`${items.slice(0, SHOWN_ITEMS).join('},{')}}]`),
    note: `The first ${shown} of ${all} are shown; Download has all.`,
  };
}

/** The list as it came last, and the tags that have come since: of `inventory`, and of each pet that was updated. */
let list = '';
const tags = new Map();

function remember({ url, status, headers, text }) {
  const name = url.slice(url.lastIndexOf('/') + 1);
  if (name === 'inventory' && status === 200) {
    list = text;
    tags.clear();
  }
  if (headers.etag) tags.set(name, headers.etag);
}

function tagOf(name) {
  if (tags.has(name) || !/^-?\d+$/.test(name)) return tags.get(name);
  const [, quantity, status] = new RegExp(`"petId":${name},"quantity":(\\d+),"status":"(\\w+)"`).exec(list) ?? [];
  return status && `"${status}-${quantity}"`;
}

const withBareKey = (scheme) => ({ ...scheme, value: scheme.value.trim().replace(/^bearer\s+/i, '') });

function InventoryPages({ React: { createElement: h, Fragment, useMemo } }) {
  return {
    statePlugins: {
      auth: {
        wrapActions: {
          /** A key is often pasted with the word before it or with blanks around it. */
          authorize: (original) => (schemes) =>
            original(Object.fromEntries(Object.entries(schemes).map(([name, scheme]) => [name, withBareKey(scheme)]))),
        },
      },
      spec: {
        wrapActions: {
          /** Called when Execute sends nothing because a field is wrong: the response before must not read as this one's. */
          clearValidateParams:
            (original, { specActions }) =>
            ([path, method]) => {
              specActions.clearResponse(path, method);
              specActions.clearRequest(path, method);
              return original([path, method]);
            },
        },
      },
    },
    wrapComponents: {
      /** HighlightCode copies and saves the text as it came; what it shows of it is for SyntaxHighlighter to say. */
      responseBody: (Original) => (props) => {
        if (!/json/.test(props.contentType ?? '')) return h(Original, props);
        const HighlightCode = props.getComponent('HighlightCode', true);
        const code = { className: 'response-json', language: 'json', downloadable: true, canCopy: true };
        return h(
          Fragment,
          null,
          h('h5', null, 'Response body'),
          h(HighlightCode, { ...code, fileName: 'response.json' }, props.content),
        );
      },
      SyntaxHighlighter: (Original) => (props) => {
        const { className = '', children } = props;
        const isResponse = className.includes('response-json');
        const { text, note } = useMemo(
          () => (isResponse ? shownResponse(children) : { text: children }),
          [isResponse, children],
        );
        return h(Fragment, null, note && h('p', { className: 'shown-of' }, note), h(Original, props, text));
      },
      /** Swagger UI resolves an operation some time after it opens; pressed before, Execute would stay disabled. */
      execute: (Original) => (props) => props.operation.size > 0 && h(Original, props),
      /** The field of a conditional header offers the tag that holds at the moment. A wrong field says why. */
      JsonSchema_string:
        (Original, { specSelectors }) =>
        (props) => {
          const petId = specSelectors.parameterValues(['/inventory/{petId}', 'patch']).get('path.petId');
          const tag = tagOf({ 'If-None-Match': 'inventory', 'If-Match': petId }[props.description]);
          const errors = [...(props.errors ?? [])].map((error, key) =>
            h('p', { className: 'field-error', key }, error),
          );
          if (!tag || props.disabled) return h(Fragment, null, h(Original, props), errors);
          const take = { type: 'button', className: 'btn current-tag', onClick: () => props.onChange(tag) };
          return h(Fragment, null, h(Original, { ...props, description: tag }), h('button', take, `Use ${tag}`));
        },
    },
  };
}

SwaggerUIBundle({
  domNode: document.getElementById('docs'),
  url: 'openapi.json',
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [InventoryPages],
  deepLinking: true,
  docExpansion: 'list',
  displayRequestDuration: true,
  persistAuthorization: false,
  showExtensions: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  responseInterceptor: (response) => {
    if (response.url.endsWith('/openapi.json')) return { ...response, text: shownDocument(response.text) };
    remember(response);
    // Swagger UI would keep these twice over, each item as an object of its own; the text is all that is shown.
    return { ...response, body: undefined, obj: undefined };
  },
});
