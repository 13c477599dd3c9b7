import { existsSync } from 'node:fs';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** What each folder of src/ may import from the others; there is no way back. The programs beside them may import all. */
const IMPORTS = {
  errors: [],
  address: ['errors'],
  database: ['address', 'errors'],
  http: ['database', 'errors'],
  server: ['http', 'errors'],
  auth: ['http', 'database', 'errors'],
  openapi: ['auth', 'http', 'errors'],
  inventory: ['openapi', 'auth', 'http', 'database', 'errors'],
  history: ['inventory', 'database', 'errors'],
  migrations: ['history', 'database', 'errors'],
  operations: ['migrations', 'inventory', 'auth', 'http', 'database', 'errors'],
  commands: ['migrations', 'history', 'inventory', 'auth', 'http', 'database', 'errors'],
};
const FOLDERS = Object.keys(IMPORTS);
/** The folders that src/settings.ts reads from. All others read it. */
const READ_BY_SETTINGS = ['address', 'errors'];

const noImportFrom = (folders, message) => ({
  group: folders.flatMap((folder) => [`./${folder}/**`, `../${folder}/**`, `../../${folder}/**`]),
  message,
});
const restrict = (...patterns) => ({ 'no-restricted-imports': ['error', { patterns }] });

export default defineConfig(
  globalIgnores([
    ...[
      '**/dist/',
      'src/generated/',
      '.data/',
      '**/node_modules/',
      'test/contract/clients/',
      'test/contract/generated/',
    ],
    ...(existsSync('bench/node_modules') ? [] : ['bench/']), // it brings its own packages, installed when it is first run
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
  ...FOLDERS.map((folder) => ({
    files: [`src/${folder}/**/*.ts`],
    ignores: ['src/inventory/inventory.module.ts', '**/*.spec.ts'],
    rules: restrict(
      noImportFrom(
        FOLDERS.filter((other) => other !== folder && !IMPORTS[folder].includes(other)),
        `src/${folder} may import from ${IMPORTS[folder].join(', ') || 'no other folder'} only.`,
      ),
      ...(READ_BY_SETTINGS.includes(folder)
        ? [{ group: ['../settings.*'], message: `The settings import from src/${folder}.` }]
        : []),
      { group: ['**/fast/**'], message: 'Only inventory.module.ts imports the fast service.' },
    ),
  })),
  {
    files: ['src/settings.ts'],
    rules: restrict(
      noImportFrom(
        FOLDERS.filter((folder) => !READ_BY_SETTINGS.includes(folder)),
        `The settings may import from ${READ_BY_SETTINGS.join(', ')} only.`,
      ),
    ),
  },
  {
    files: ['src/*.ts'],
    ignores: ['src/app.ts', 'src/serve.ts', 'src/settings.ts', '**/*.spec.ts'],
    rules: restrict(noImportFrom(['server'], 'Only app.ts and serve.ts import from src/server.')),
  },
);
