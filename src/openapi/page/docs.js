/* global document, SwaggerUIBundle */

const isRounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/** The document as it is shown: without bounds that a browser would round, and with the one server it can call. */
function shown(text) {
  const api = JSON.parse(text, (_name, value) => (isRounded(value) ? undefined : value));
  return JSON.stringify({ ...api, servers: api.servers.slice(0, 1) });
}

/** Indents JSON and keeps every digit, where the browser can (Chrome 114, Firefox 135, Safari 18.4). */
function indented(text) {
  try {
    const exact = (_name, value, context) => (isRounded(value) ? JSON.rawJSON(context.source) : value);
    return JSON.stringify(JSON.parse(text, exact), null, 2);
  } catch {
    return text;
  }
}

/** Swagger UI itself would round a petId beyond 2^53 when it shows an answer. */
function ExactAnswers({ React: { createElement } }) {
  return {
    wrapComponents: {
      responseBody: (Original) => (props) => {
        if (!/json/.test(props.contentType ?? '')) return createElement(Original, props);
        const HighlightCode = props.getComponent('HighlightCode', true);
        return createElement(
          'div',
          null,
          createElement('h5', null, 'Response body'),
          createElement(
            HighlightCode,
            { language: 'json', downloadable: true, fileName: 'answer.json', canCopy: true },
            indented(props.content),
          ),
        );
      },
    },
  };
}

SwaggerUIBundle({
  domNode: document.getElementById('docs'),
  url: '/openapi.json',
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [ExactAnswers],
  deepLinking: true,
  docExpansion: 'list',
  displayRequestDuration: true,
  persistAuthorization: false,
  showExtensions: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  responseInterceptor: (response) =>
    response.url.endsWith('/openapi.json') ? { ...response, text: shown(response.text) } : response,
});
