import { existsSync } from 'node:fs';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** What each folder of src/ may import from the others; there is no way back. The programs beside them may import all. */
const IMPORTS = {
  errors: [],
  database: ['errors'],
  http: ['database', 'errors'],
  auth: ['http', 'database', 'errors'],
  openapi: ['auth', 'http', 'errors'],
  inventory: ['openapi', 'auth', 'http', 'database', 'errors'],
  operations: ['inventory', 'auth', 'http', 'database', 'errors'],
  commands: ['inventory', 'auth', 'http', 'database', 'errors'],
};
const FOLDERS = Object.keys(IMPORTS);
/** Imports nothing itself. Every folder that writes something down must know a key when it sees one. */
const KEY_FORM = '../auth/api-key.format.js';

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
  { files: [`src/${KEY_FORM.slice(3, -3)}.ts`], rules: { 'no-restricted-imports': ['error', { patterns: ['..*'] }] } },
  ...FOLDERS.map((folder) => ({
    files: [`src/${folder}/**/*.ts`],
    ignores: ['src/inventory/inventory.module.ts', '**/*.spec.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            ...FOLDERS.filter((other) => other !== folder && !IMPORTS[folder].includes(other)).map((other) => ({
              group: [`../${other}/**`, `../../${other}/**`, `!${KEY_FORM}`],
              message: `src/${folder} may import from ${IMPORTS[folder].join(', ') || 'no other folder'} only.`,
            })),
            { group: ['**/fast/**'], message: 'Only inventory.module.ts imports the fast service.' },
          ],
        },
      ],
    },
  })),
);
