// What rendermime mentions of @jupyterlab/services: only in its URL resolver, which this page does not use
// (outputs of a guest may not reach for addresses). Requests and sockets are in net/.
export const ServerConnection = {
  makeSettings(): { baseUrl: string } {
    return { baseUrl: '' };
  },
  makeRequest(): Promise<Response> {
    return Promise.reject(new Error('outputs may not make requests'));
  },
};
