// Files on their way into the session. XMLHttpRequest, because fetch cannot tell how far an upload is.
import { authHeaders, filePath } from '../net/api';
import { baseUrl } from '../net/base';
import { Store } from './store';

export interface Upload {
  id: number;
  name: string;
  size: number;
  sent: number;
  state: 'going' | 'done' | 'failed';
  message: string;
}

export class Uploads extends Store {
  items: Upload[] = [];
  private ids = 0;
  /** Goes up when something arrived. */
  arrived = 0;

  async add(session: string, folder: string, list: readonly File[]): Promise<void> {
    for (const file of list) await this.one(session, folder, file);
  }

  dismiss(id: number): void {
    this.items = this.items.filter(u => u.id !== id);
    this.changed();
  }

  private one(session: string, folder: string, file: File): Promise<void> {
    const item: Upload = { id: (this.ids += 1), name: file.name, size: file.size, sent: 0, state: 'going', message: '' };
    this.items = [...this.items, item];
    this.changed();
    return new Promise(resolve => {
      const xhr = new XMLHttpRequest();
      xhr.open('PUT', baseUrl + filePath(session, `${folder}/${file.name}`));
      for (const [k, v] of Object.entries(authHeaders())) xhr.setRequestHeader(k, v);
      xhr.upload.onprogress = e => {
        item.sent = e.loaded;
        this.changed();
      };
      xhr.onloadend = () => {
        this.ended(item, xhr);
        resolve();
      };
      xhr.send(file);
    });
  }

  private ended(item: Upload, xhr: XMLHttpRequest): void {
    const ok = xhr.status === 200 || xhr.status === 201;
    item.state = ok ? 'done' : 'failed';
    item.sent = ok ? item.size : item.sent;
    item.message = ok ? '' : refusal(xhr);
    if (ok) {
      this.arrived += 1;
      setTimeout(() => this.dismiss(item.id), 4000);
    }
    this.changed();
  }
}

function refusal(xhr: XMLHttpRequest): string {
  if (!xhr.status) return 'The connection broke. What was there before is untouched; drop the file again.';
  let message = '';
  try {
    message = (JSON.parse(xhr.responseText) as { message?: string }).message ?? '';
  } catch {
    message = `The gateway answered ${xhr.status}.`;
  }
  if (xhr.status === 507) return `No room on the session's disk (${message}). Delete something first, then drop the file again.`;
  return message;
}

export const uploads = new Uploads();
