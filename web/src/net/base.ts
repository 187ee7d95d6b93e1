// Where the gateway is: the page's <base>, which the gateway filled in, and the token of this tab.

import { tabStorage } from './memory';

const KEY = 'cellkeep.token';

/** Address of the gateway without a trailing slash. */
export const baseUrl = new URL('.', document.baseURI).href.replace(/\/$/, '');

export function wsUrl(path: string): string {
  return baseUrl.replace(/^http/, 'ws') + path;
}

/** Moves ?token=… of the ready line's address into this tab's storage, and out of the address bar. */
export function takeTokenFromAddress(): void {
  const url = new URL(location.href);
  const token = url.searchParams.get('token');
  if (token === null) return;
  url.searchParams.delete('token');
  history.replaceState(null, '', url.pathname + url.search + url.hash);
  if (token) setToken(token);
}

export function getToken(): string {
  return tabStorage.get(KEY) ?? '';
}

export function setToken(token: string): void {
  if (token) tabStorage.set(KEY, token);
  else tabStorage.remove(KEY);
}
