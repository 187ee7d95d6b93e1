// The tab's and the browser's storage. Inside another site's page a browser may refuse both: then what is kept
// lives as long as the page.
class Kept {
  private readonly own = new Map<string, string>();

  constructor(private readonly storage: () => Storage) {}

  get(key: string): string | null {
    try {
      return this.storage().getItem(key);
    } catch {
      return this.own.get(key) ?? null;
    }
  }

  set(key: string, value: string): void {
    try {
      this.storage().setItem(key, value);
    } catch {
      this.own.set(key, value);
    }
  }

  remove(key: string): void {
    this.own.delete(key);
    try {
      this.storage().removeItem(key);
    } catch {
      // it was never there
    }
  }
}

export const tabStorage = new Kept(() => sessionStorage);
export const browserStorage = new Kept(() => localStorage);
