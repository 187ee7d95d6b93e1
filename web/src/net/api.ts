// Calls of the cell API. Every refusal becomes an ApiError with the gateway's own sentence; a gateway that
// cannot be reached becomes one with status 0.
import { baseUrl, getToken } from './base';
import type { Checkpoint, Choice, Finished, Folder, Session, Template } from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

export function authHeaders(): Record<string, string> {
  return { Authorization: `Bearer ${getToken()}` };
}

async function refusal(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as { message?: string; reason?: string };
    return new ApiError(response.status, body.reason ?? '', body.message ?? response.statusText);
  } catch {
    return new ApiError(response.status, '', `The gateway answered ${response.status} ${response.statusText}.`);
  }
}

/** A request with the token; anything but success is thrown. */
export async function request(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(baseUrl + path, { ...init, method, headers: { ...authHeaders(), ...init.headers } });
  } catch {
    throw new ApiError(0, 'unreachable', 'The gateway cannot be reached.');
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(method, path, body === undefined ? {} : { body: JSON.stringify(body) });
  return (await response.json()) as T;
}

const of = (id: string, verb = ''): string => `/v1/sessions/${encodeURIComponent(id)}${verb}`;

export const api = {
  sessions: () => json<Session[]>('GET', '/v1/sessions'),
  session: (id: string) => json<Session>('GET', of(id)),
  templates: () => json<Template[]>('GET', '/v1/templates'),
  create: (name: string, from: Partial<Choice> = {}) => json<Session>('POST', '/v1/sessions', { name, ...from, metadata: { made_by: 'web' } }),
  rename: (id: string, name: string) => json<Session>('PATCH', of(id), { name }),
  remove: async (id: string) => void (await request('DELETE', of(id))),
  verb: (id: string, verb: 'pause' | 'resume' | 'interrupt' | 'restart') => json<Session>('POST', of(id, `/${verb}`)),
  fork: (id: string, checkpoint?: string) => json<Session[]>('POST', of(id, '/fork'), { checkpoint }),
  checkpoints: (id: string) => json<Checkpoint[]>('GET', of(id, '/checkpoints')),
  checkpoint: (id: string, name: string) => json<Checkpoint>('POST', of(id, '/checkpoints'), name ? { name } : {}),
  dropCheckpoint: async (id: string, c: string) => void (await request('DELETE', of(id, `/checkpoints/${encodeURIComponent(c)}`))),
  rollback: (id: string, checkpoint: string) => json<Session>('POST', of(id, '/rollback'), { checkpoint }),
  cell: (id: string, cell: string) => json<Finished>('GET', of(id, `/cells/${encodeURIComponent(cell)}`)),
  cancel: async (id: string, cell: string) => void (await request('DELETE', of(id, `/cells/${encodeURIComponent(cell)}`))),
};

/** The address of a file below the gateway: a guest path with its slashes, each part encoded. */
export function filePath(id: string, path: string): string {
  return of(id, '/files/') + path.replace(/^\//, '').split('/').map(encodeURIComponent).join('/');
}

export const files = {
  list: (id: string, path: string) => json<Folder>('GET', filePath(id, path)),
  get: (id: string, path: string, range?: string) =>
    request('GET', filePath(id, path), range ? { headers: { Range: range } } : {}),
  put: async (id: string, path: string, body: BodyInit, keepalive = false) =>
    void (await request('PUT', filePath(id, path), { body, keepalive })),
  remove: async (id: string, path: string) => void (await request('DELETE', `${filePath(id, path)}?recursive=true`)),
  mkdir: (id: string, path: string) => json<unknown>('POST', filePath(id, path), { action: 'mkdir' }),
  tar: (id: string, path: string) => request('GET', `${filePath(id, path)}?archive=tar`),
};
