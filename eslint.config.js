import { existsSync } from 'node:fs';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Features import only from those behind them; there is no way back. Both libraries stand behind all of them. */
const ORDER = ['commands', 'operations', 'check', 'migrations', 'history', 'inventory', 'keys', 'errors'];
/** Commands import nothing of operations, and the other way round. */
const forbiddenIn = (folder) => [
  ...ORDER.slice(0, ORDER.indexOf(folder)),
  ...(folder === 'commands' ? ['operations'] : []),
];
const LIBRARIES = ['http', 'postgres'];

const noImportFrom = (folders, message) => ({
  group: folders.flatMap((folder) => [`./${folder}/**`, `../${folder}/**`, `../../${folder}/**`]),
  message,
});
const DOORS = {
  group: [
    ...LIBRARIES.flatMap((library) => [`**/lib/${library}/**`, `!**/lib/${library}/index.ts`]),
    '!**/lib/http/json.ts', // for commands: the whole library takes half a second to load
  ],
  message: 'A library is imported by its index.ts only; lib/http by json.ts, too.',
};
const FAST = { group: ['**/fast/**'], message: 'Only inventory.module.ts imports the fast service.' };
/** The trial sends the full text of the batched update. */
const FAST_BUT_ITS_TEXT = { ...FAST, group: [...FAST.group, '!**/fast/update-statement.ts'] };
const restrict = (...patterns) => ({ 'no-restricted-imports': ['error', { patterns }] });

/** `npm start` runs these files without a build: Node.js only strips their types. */
const RUN_FROM_SOURCE = [
  'src/lib/postgres/**/*.ts',
  'src/migrations/**/*.ts',
  'src/history/history-lock.ts',
  'src/{health-check,database-errors,safe-text,setting-values,settings}.ts',
  'dev/**/*.ts',
];
const NOT_STRIPPABLE = [
  'TSParameterProperty',
  'Decorator',
  'TSEnumDeclaration',
  'TSModuleDeclaration[kind="namespace"]',
].map((selector) => ({
  selector,
  message: 'npm start runs this file without a build, and Node.js cannot strip this.',
}));

export default defineConfig(
  globalIgnores([
    ...['**/dist/', 'src/generated/', '.data/', '**/node_modules/', 'lab/contract/clients/', 'lab/contract/generated/'],
    ...(existsSync('lab/bench/node_modules') ? [] : ['lab/bench/']), // it brings its own packages, installed when it is first run
  ]),
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-extraneous-class': 'off', // a NestJS module is a class without members
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off', // the compiler's structural types are the rule here
      '@typescript-eslint/dot-notation': 'off', // tsconfig's noPropertyAccessFromIndexSignature decides
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
    },
  },
  ...ORDER.map((folder) => ({
    files: [`src/${folder}/**/*.ts`],
    ignores: ['src/inventory/inventory.module.ts', '**/*.spec.ts'],
    rules: restrict(
      noImportFrom(
        forbiddenIn(folder),
        `src/${folder} may import only from the folders behind it, in this order: ${ORDER.join(', ')}, lib.`,
      ),
      DOORS,
      folder === 'check' ? FAST_BUT_ITS_TEXT : FAST,
    ),
  })),
  ...LIBRARIES.map((library) => ({
    files: [`src/lib/${library}/**/*.ts`],
    ignores: ['**/*.spec.ts'],
    rules: restrict({ group: ['../**'], message: `src/lib/${library} imports nothing of this project.` }),
  })),
  { files: ['src/*.ts', 'dev/**/*.ts', 'lab/**/*.ts'], ignores: ['**/*.spec.ts'], rules: restrict(DOORS, FAST) },
  {
    files: ['test/**/*.ts', 'src/**/*.spec.ts', 'dev/**/*.spec.ts'],
    rules: restrict({ group: ['**/lab/**'], message: 'Tests import nothing of lab/.' }, DOORS),
  },
  {
    files: RUN_FROM_SOURCE,
    ignores: ['**/*.spec.ts'],
    rules: { 'no-restricted-syntax': ['error', ...NOT_STRIPPABLE] },
  },
);
