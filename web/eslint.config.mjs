// What the type checker does not say: promises that nobody waits for, and values of no known type.
import tseslint from 'typescript-eslint';

export default tseslint.config(...tseslint.configs.recommendedTypeChecked, {
  files: ['src/**/*.ts', 'src/**/*.tsx'],
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
  rules: {
    '@typescript-eslint/no-floating-promises': 'error',
    '@typescript-eslint/no-explicit-any': 'error',
    '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false } }],
    '@typescript-eslint/require-await': 'off',
    '@typescript-eslint/restrict-template-expressions': 'off',
    'max-lines-per-function': ['error', { max: 90, skipBlankLines: true, skipComments: true }],
    'max-lines': ['error', { max: 340 }],
  },
});
