interface System {
  readonly React: {
    readonly createElement: (of: unknown, props: object | null, ...children: unknown[]) => unknown;
    readonly useMemo: <Made>(make: () => Made, of: readonly unknown[]) => Made;
  };
}

interface Body {
  readonly content: string;
  readonly contentType?: string;
  readonly getComponent: (name: string, isContainer: boolean) => unknown;
}

/**
 * A plugin of Swagger UI: all digits of a petId, and lists of any length. The browser gets the text of this function,
 * which must therefore name nothing outside.
 */
export function inventoryPlugin({ React: { createElement: h, useMemo } }: System): object {
  const exact = (_name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? JSON.rawJSON(context?.source ?? String(value)) : value;

  return {
    statePlugins: {
      spec: {
        wrapActions: {
          setResponse:
            (original: (path: string, method: string, response: object) => unknown) =>
            // The text is all that is shown; Swagger UI would spend minutes on the items of a long list.
            (path: string, method: string, response: object) =>
              original(path, method, { ...response, body: undefined, obj: undefined }),
        },
      },
    },
    wrapComponents: {
      responseBody: (Original: unknown) => (props: Body) => {
        const { content, contentType = '', getComponent } = props;
        const json = useMemo(
          () => contentType.includes('json') && JSON.stringify(JSON.parse(content, exact), null, 2),
          [content, contentType],
        );
        if (json === false) return h(Original, props);
        const code = { language: 'json', downloadable: true, fileName: 'response.json', canCopy: true };
        // Colours take a second for each thousand pets.
        const viewer = getComponent(json.length < 200_000 ? 'HighlightCode' : 'PlainTextViewer', true);
        return h('div', null, h('h5', null, 'Response body'), h(viewer, code, json));
      },
    },
  };
}
