interface System {
  readonly React: {
    readonly createElement: (of: unknown, props: object | null, ...children: unknown[]) => unknown;
    readonly useMemo: <Made>(make: () => Made, of: readonly unknown[]) => Made;
    readonly Fragment: unknown;
  };
  readonly specSelectors: { parameterValues(operation: readonly string[]): ReadonlyMap<string, string> };
}

interface Response {
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A Blob where there is no body. */
  readonly text?: unknown;
  /** From 400 on. */
  readonly err?: { readonly response?: Response };
}

interface Body {
  readonly content: string;
  readonly contentType?: string;
  readonly getComponent: (name: string, isContainer: boolean) => unknown;
}

interface Field {
  readonly description: string;
  readonly disabled: boolean;
  onChange(value: string): void;
}

/**
 * A plugin of Swagger UI: all digits of a petId, and a button for the tag that holds. The browser gets the text of this
 * function, which must therefore name nothing outside.
 */
export function inventoryPlugin({ React: { createElement: h, Fragment, useMemo } }: System): object {
  /** The tag of the list, under `inventory`, and of pets under their ids, as the last responses had them. */
  const tags = new Map<string, string>();

  const remember = ({ url = '', headers = {}, text }: Response) => {
    const items = String(text).matchAll(/"petId":(-?\d+),"quantity":(\d+),"status":"(\w+)"/g);
    for (const [, petId = '', quantity = '', status = ''] of items) tags.set(petId, `"${status}-${quantity}"`);
    if (headers['etag']) tags.set(url.slice(url.lastIndexOf('/') + 1), headers['etag']);
  };

  const exact = (_name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? JSON.rawJSON(context?.source ?? String(value)) : value;

  return {
    statePlugins: {
      spec: {
        wrapActions: {
          setResponse:
            (original: (path: string, method: string, response: object) => unknown) =>
            (path: string, method: string, response: Response) => {
              remember(response.err?.response ?? response);
              // The text is all that is shown; Swagger UI would spend minutes on the items of a long list.
              return original(path, method, { ...response, body: undefined, obj: undefined });
            },
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
      JsonSchema_string:
        (Original: unknown, { specSelectors }: System) =>
        (props: Field) => {
          const petId = specSelectors.parameterValues(['/inventory/{petId}', 'patch']).get('path.petId');
          const names: Record<string, string | undefined> = { 'If-None-Match': 'inventory', 'If-Match': petId };
          const tag = tags.get(names[props.description] ?? '');
          if (tag === undefined || props.disabled) return h(Original, props);
          const button = { type: 'button', className: 'btn', onClick: () => props.onChange(tag) };
          return h(Fragment, null, h(Original, props), h('button', button, `Use ${tag}`));
        },
    },
  };
}
