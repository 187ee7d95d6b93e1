// Light, dark, or as the system has it.
import { browserStorage } from '../net/memory';

type Theme = 'system' | 'light' | 'dark';
const KEY = 'cellkeep.theme';
const ORDER: Theme[] = ['system', 'light', 'dark'];

const stored = (): Theme => ORDER.find(t => t === browserStorage.get(KEY)) ?? 'system';

export function applyTheme(): void {
  const theme = stored();
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export const themeWords = (): string => (stored() === 'system' ? 'as the system' : stored());

export function nextTheme(): string {
  const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length] ?? 'system';
  browserStorage.set(KEY, next);
  applyTheme();
  return themeWords();
}
