// Saving to the person's disk. By fetch and not by a link, so that the token is in no address.
import { files } from '../net/api';

export function saveBlob(blob: Blob, name: string): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}

export async function download(session: string, path: string, name: string): Promise<void> {
  saveBlob(await (await files.get(session, path)).blob(), name);
}

export async function downloadTar(session: string, path: string, name: string): Promise<void> {
  saveBlob(await (await files.tar(session, path)).blob(), name);
}
